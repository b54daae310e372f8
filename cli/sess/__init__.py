"""The client of sess: finds a session and resumes it."""

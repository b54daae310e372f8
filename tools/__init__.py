"""What `try`, `test` and the documentation are made with; needs nothing but Python."""

"""What `sess` costs beside what people use instead: ``python -m tests.bench``.

Every figure of one report comes from one run on one machine. Linux only: ``/proc`` says what a process used.
"""

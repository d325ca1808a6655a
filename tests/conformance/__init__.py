"""Reference cases, from any file of their format, through the public functions: `python -m tests.conformance FILE.json`.

A case is found by its *method*, by the *names of its inputs and parameters* and by the *names of its expected values*, never by its
id, so a file with new ids needs nothing new here. What the table does not know is reported as `unmapped`, never skipped.
"""

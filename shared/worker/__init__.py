"""What every worker process does: start, report, leave a record of what it reads."""

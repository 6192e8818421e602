"""What people see: the live view. Imported only when it is shown."""

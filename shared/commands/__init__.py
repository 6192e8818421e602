"""The launcher's commands, one module each, imported only when used."""

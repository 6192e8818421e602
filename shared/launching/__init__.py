"""The launcher's side of a run: children started, watched, replaced and ended."""

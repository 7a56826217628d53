"""Words that all rooms share: states, reasons, schemas, units, files, processes, the week."""

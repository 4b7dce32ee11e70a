"""From an emitted design to a running system: bus ports, drivers, boards and projects of tools."""

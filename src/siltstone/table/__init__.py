"""Tables: their schema, rows, fragments and versions."""

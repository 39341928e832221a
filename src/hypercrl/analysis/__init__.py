"""From the records of runs to metrics, tables, figures and the report page."""

"""Labels and predictions to reports, tables and pictures."""

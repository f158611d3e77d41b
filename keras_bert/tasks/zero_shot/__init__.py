"""Labels that no model was trained for."""

"""Find the smallest file within an accuracy budget, and write it with reports and guides."""

"""Deployment: the chosen file with its proof, report and guides."""

"""Fine-tuning: recipes, runs, and what they train and keep."""

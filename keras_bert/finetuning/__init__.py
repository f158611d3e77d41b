"""Fine-tuning: recipes, runs, the weights that train, and the weights that are kept."""

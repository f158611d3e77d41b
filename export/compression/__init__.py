"""Make a task's model smaller: vocabulary, blocks, heads, neurons, weights, and students."""

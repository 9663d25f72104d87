"""What a table keeps, and for how long: checkpoints, clones, and the collection of all else."""

"""Text indexes: how they are built, and how they are searched."""

"""What is minimised: loss and derivatives of some rows at a point; nothing about where rows are."""

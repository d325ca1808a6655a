"""What a run did, made again: training steps from the folder alone, episodes with their environment; and the first difference."""

"""Why a token moved: `run folder + trajectory -> rewards, advantage, ratio, verdict, derivative`."""

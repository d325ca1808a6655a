"""The examination of a policy: nine steps in the order in which a fault is found fastest, each resting on those before it."""

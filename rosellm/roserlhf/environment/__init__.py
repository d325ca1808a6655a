"""What the policy acts on: messages in; messages, named rewards and an ending out. No tokens, no torch."""

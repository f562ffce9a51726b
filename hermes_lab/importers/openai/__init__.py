"""OpenAI chat JSONL: conversations, request and response pairs, batch files."""

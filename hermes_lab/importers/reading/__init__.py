"""What importers share: reading large files, values, and messages in their many spellings."""

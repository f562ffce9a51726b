"""OTLP JSON: spans and log records with GenAI or OpenInference names."""

"""The web page that speaks."""

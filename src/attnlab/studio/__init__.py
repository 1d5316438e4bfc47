"""The studio: the laboratory in a web page. It holds no science: whatever it shows, the rooms below have computed."""

"""The snapshot graph as a picture: text, Mermaid, SVG and a page of its own."""

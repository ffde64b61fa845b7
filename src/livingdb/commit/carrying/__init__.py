"""How a change is carried along a sync: through lenses, to views, to clones."""

"""anywidget views of a Trace and what makes them survive saving and sharing."""

"""A performance model that writes complete run folders whose causes of time are known."""

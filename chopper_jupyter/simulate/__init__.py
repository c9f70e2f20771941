"""A performance model that writes complete run folders whose causes of time are known."""

from chopper_jupyter.simulate.injections import Injections
from chopper_jupyter.simulate.run import llama_fsdp

__all__ = ["Injections", "llama_fsdp"]

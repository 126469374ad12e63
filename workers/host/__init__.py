"""The engine host: one process that owns the model and the codec of one device, for several workers.

    schedule          which streams are decoded next, and how much of each; no torch, no clock
    wire, frames      what workers and host say to each other, over a Unix socket; no torch
    client            a worker's end of it; no torch
    model             files and settings -> a backend, a codec, voices
    requests          a worker's request in the model's terms
    sound             a step of the codec on the device, and its sound on the way to the host's memory
    loop              the thread that steps both for every stream
    delivery, server  the host's end of the sockets
    host, watchdog    all of it put together, and its end when a step hangs

Import from the modules: this file stays empty so that workers load without torch.
"""

"""A real llama.cpp server for the nightly test: python3 llama_cpp_server.py MODEL.gguf. Needs the package xllamacpp, which
carries the server; prints its address and serves until it is killed.
"""

import sys
import time

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 1024
params.n_parallel = 4
params.n_gpu_layers = 0
for port in range(18800, 18900):
    params.port = port
    try:
        server = xllamacpp.Server(params)
        break
    except RuntimeError:
        continue
print(server.listening_address, flush=True)
time.sleep(3600)

"""A client of the verifier in Python, from the wire contract alone: nothing of hone is installed.

    python3 -m venv venv && venv/bin/pip install grpcio grpcio-tools
    venv/bin/python -m grpc_tools.protoc -I proto --python_out=stubs --grpc_python_out=stubs \
        proto/hone/v1/types.proto proto/hone/v1/verifier.proto
    PYTHONPATH=stubs venv/bin/python examples/verify_client.py 127.0.0.1:50151 \
        tasks/softmax/tempered_softmax.py examples/softmax.cu examples/softmax_wrong.cu
"""

import os
import sys
import time

import grpc
from hone.v1 import types_pb2, verifier_pb2, verifier_pb2_grpc


def requests(task_path, candidate_paths):
    """One request a candidate; the tag names it in the answers."""
    with open(task_path, "rb") as file:
        reference = file.read()
    for tag, path in enumerate(candidate_paths):
        with open(path, "rb") as file:
            source = file.read()
        yield verifier_pb2.VerifyStreamRequest(
            tag=tag,
            request=verifier_pb2.VerifyRequest(
                task=types_pb2.Task(reference=reference),
                candidate=types_pb2.Candidate(source=source, backend=types_pb2.BACKEND_CPU),
                protocol=types_pb2.Protocol(id="quick"),
                trace_id="example",
            ),
        )


def judge(stub, task_path, candidate_paths, metadata):
    """Prints verdicts in order of completion. UNAVAILABLE is the one error worth sending again."""
    for attempt in range(5):
        try:
            answers = stub.VerifyStream(requests(task_path, candidate_paths), timeout=300, metadata=metadata)
            for answer in answers:
                path = candidate_paths[answer.tag]
                if answer.HasField("error"):
                    print(f"{path}: not judged: {answer.error.message}")
                    continue
                verdict = answer.verdict
                status = types_pb2.VerdictStatus.Name(verdict.status).removeprefix("VERDICT_STATUS_")
                print(f"{path}: {status} {verdict.message}")
            return
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or attempt == 4:
                raise
            time.sleep(0.1 * 2**attempt)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: verify_client.py ENDPOINT TASK.py CANDIDATE.cu...")
    token = os.environ.get("HONE_TOKEN")
    metadata = [("authorization", f"Bearer {token}")] if token else None
    with grpc.insecure_channel(sys.argv[1]) as channel:
        try:
            judge(verifier_pb2_grpc.VerifierStub(channel), sys.argv[2], sys.argv[3:], metadata)
        except grpc.RpcError as error:
            sys.exit(f"{sys.argv[1]}: {error.code().name}: {error.details()}")


if __name__ == "__main__":
    main()

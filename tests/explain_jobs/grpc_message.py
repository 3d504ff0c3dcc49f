"""A gRPC message larger than the receiver takes: grpc_message.py response|request|send."""

import sys
from concurrent import futures

import grpc

where = sys.argv[1]


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"x" * (6 << 20) if where == "response" else b"ok")


server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Handler()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
options = [("grpc.max_send_message_length", 1 << 20)] if where == "send" else []
channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
predict = channel.unary_unary("/PredictionService/Predict")
print(len(predict(b"x" if where == "response" else b"x" * (5 << 20))))

"""The messages and services of `proto/warmroute/v1`, as `make proto` writes them.

`from warmroute.v1 import router_pb2, router_pb2_grpc, fleet_pb2, fleet_pb2_grpc`
"""

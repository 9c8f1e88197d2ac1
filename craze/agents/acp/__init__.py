"""The client side of the Agent Client Protocol, version 1: `AcpAgent` drives one agent."""

from craze.agents.acp.agent import AcpAgent

__all__ = ["AcpAgent"]

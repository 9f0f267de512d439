"""An agent that a remote peer drives over A2A, the protocol by which agents of different makers talk."""

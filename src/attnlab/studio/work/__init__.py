"""What the studio's other processes do: plain questions in, plain answers out, by the rooms below."""

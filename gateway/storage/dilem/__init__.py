"""What Dilem keeps: identities, cases, what was said in them, votes and reports. Rows alone; the rules stand in `gateway/dilem/`."""

"""PDFs and photos that come with a call: recognised, weighed, their pages counted, or refused."""

"""The report and decisions as text, Markdown, HTML, JUnit and CSV."""

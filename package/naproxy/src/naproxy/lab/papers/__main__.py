"""`python -m naproxy.lab.papers`: the documents' computable numbers, printed next to computed."""

from naproxy.lab.papers.claims import lines

if __name__ == "__main__":
    for line in lines():
        print(line)

"""Services: stateful applications with typed actions, on one clock, judged by what became of their data.

`declaration` has what an application is declared with, `schema` its tables, `transaction` what its actions get;
`world` opens services for an attempt; `apps` has the applications of our own.
"""

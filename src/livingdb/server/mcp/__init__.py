"""The way in for agents: the Model Context Protocol, over standard input and output or HTTP.

    session    who the agent is, and the one branch that it writes
    call       how a tool is called: whose rights, how long, how its errors are told
    statements which SQL an agent may say on its branch
    answers    what is said in answer, and how much of it
    tools      what an agent can do, a file for each subject
    resources  schemas as documents, and prompts
    server     all of it as a server of the protocol
    over_http  the same behind the door of the HTTP server

Nothing is imported until it is asked for: the library is that of the extra `mcp`.
"""

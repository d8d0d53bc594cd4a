"""The tools and programs of a user under the crash workload: `perdure evaluate crash --app MODULE`.

subject      a tool, or a program, with arguments made from its types
process      what runs inside each process that is killed: the guard, shorter waits, and a truthful person
guard        an audit hook: connections beyond this machine are refused, and each connection is a kill point
examination  runs a subject undisturbed, kills it at each of its kill points, and lets the service fail
diagnosis    names the mistake that the evidence shows, and what to change
tool_report  the table of all subjects
"""

"""What users wait for.

main_job          the default comparison
looking           a look inside a model
studio            the studio, with studio_clients
cost              predicted beside measured cost, with cost_process
growth            time against context
"""

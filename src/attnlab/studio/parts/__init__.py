"""Parts that several pages share.

form        fields that become a plan while they are filled in
listing     comparisons and studies in a list: searched, starred, deleted and restored
watching    one comparison or study while it runs: status, charts, title and note
lessons     models that learn facts, regardless of the page they were started from
learning    a lesson as part of a page
"""

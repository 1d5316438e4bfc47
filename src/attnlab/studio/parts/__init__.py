"""Parts that pages of comparisons and of studies share.

form        fields that become a plan while they are filled in
listing     comparisons and studies in a list: searched, starred, deleted and restored
watching    one comparison or study while it runs: status, charts, title and note
"""

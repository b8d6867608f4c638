"""Where jobs read messages: topics of a cluster, journals and archives, as pieces that tasks read."""

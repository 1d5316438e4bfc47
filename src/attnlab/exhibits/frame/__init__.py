"""What all exhibits share: parameters, the stage they act on, what they leave behind, and how that is drawn."""

"""The Streamlit app: screens read state, call views and place what they return."""
